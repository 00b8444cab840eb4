package pathsafe

const hostProfile = Darwin
