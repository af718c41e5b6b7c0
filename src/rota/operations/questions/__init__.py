"""Questions to people and their answers, also through chats."""
