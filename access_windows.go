package caproot

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

// protection is what a new object gets that only its owner may use: an access
// list that does not inherit, in the creating call. For another mode the
// directory's list is inherited.
func protection(perm fs.FileMode) (*windows.SECURITY_DESCRIPTOR, error) {
	if perm&0o077 != 0 {
		return nil, nil
	}
	// Owner, system and administrators: full access, inherited by what is made inside.
	return windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)")
}

// stageMode: who may use a file is decided when it is made.
func stageMode(mode fs.FileMode) fs.FileMode { return mode | 0o200 }

// sameMode: all a file holds of its mode is whether it is read-only.
func sameMode(have, want fs.FileMode) bool { return have&0o200 == want&0o200 }

// hasAccess: a mode says nothing here, and takes nothing from a list.
func (windowsSystem) hasAccess(handle, string) (bool, error) { return false, nil }

func openControl(dir handle, name string) (handle, error) {
	if name == "" {
		return reopen(dir, windows.READ_CONTROL)
	}
	return ntOpen(dir, name, windows.READ_CONTROL, windows.FILE_OPEN, 0, 0, nil)
}

// copyAccess keeps the access list of a file that is about to be replaced.
func (s windowsSystem) copyAccess(dir handle, name string, to handle) error {
	old, err := openControl(dir, name)
	if err != nil {
		return err
	}
	defer s.close(old)
	sd, err := windows.GetSecurityInfo(windows.Handle(old), windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	w, err := reopen(to, windows.WRITE_DAC)
	if err != nil {
		return err
	}
	defer s.close(w)
	// Not SetSecurityInfo: it looks for the parent by its path, to inherit from it.
	return windows.SetKernelObjectSecurity(windows.Handle(w), windows.DACL_SECURITY_INFORMATION, sd)
}
