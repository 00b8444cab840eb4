package testfs

import "golang.org/x/sys/windows"

// UnderWine is true on Wine. What Wine does not do truthfully is skipped there,
// with the reason.
func UnderWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
