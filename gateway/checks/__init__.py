"""What the doctor looks at, each check by itself."""
