"""The demo: an agent that learns to work an order desk."""
