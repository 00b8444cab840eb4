package caproot

import "github.com/caproot/caproot/identity"

// swapped is how a known object is replaced, on APFS.
const swapped = identity.Swapped
