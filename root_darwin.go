package caproot

// platform is why Open refuses here.
const platform = "the backend for macOS is not written yet"
