"""The vocabulary of rota: values and names. Standard library only, no input or output."""
