"""Stand-ins of chat services that speak their protocols, and tests against them."""
