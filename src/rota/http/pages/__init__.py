"""The dashboard: pages made on the server, one module each; they ask operations and decide nothing."""
