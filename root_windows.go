package caproot

// platform is why Open refuses here.
const platform = "the backend for Windows is not written yet"
