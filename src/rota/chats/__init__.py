"""Clients of chat services: Telegram bots and Slack apps. Only outgoing connections."""
