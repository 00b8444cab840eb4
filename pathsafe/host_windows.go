package pathsafe

// hostProfile is what Host means here.
const hostProfile = Windows
