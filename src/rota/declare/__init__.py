"""From what users write (rota.yaml, decorators) to complete specs. Nothing here touches the database."""
