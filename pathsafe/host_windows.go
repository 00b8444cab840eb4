package pathsafe

const hostProfile = Windows
