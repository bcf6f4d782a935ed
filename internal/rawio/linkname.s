// Declarations without a body need a file of assembly in their package.
