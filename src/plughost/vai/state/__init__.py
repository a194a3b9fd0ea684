"""What a host keeps for tenants: sessions, chains, runs, the outbox and its deliveries."""
