"""The HTTP face: thin routes over `operations/`, on a thread and a loop of its own. Imported by `rota serve` alone."""
