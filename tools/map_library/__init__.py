"""Takes the libraries that draw the map of the console from npm into the source, pinned by package-lock.json."""
