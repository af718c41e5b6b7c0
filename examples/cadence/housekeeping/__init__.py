"""The functions of the jobs in rota.yaml."""
