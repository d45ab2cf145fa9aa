"""Every command line. stdout is data, stderr is people."""
