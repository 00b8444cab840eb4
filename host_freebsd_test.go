package caproot

import "github.com/caproot/caproot/identity"

// swapped is how a known object is replaced: no call exchanges two names.
const swapped = identity.Checked
