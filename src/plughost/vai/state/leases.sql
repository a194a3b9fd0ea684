-- acquire (sqlite): a new lease, or the same one again
INSERT INTO leases (lease, host, expires_at) VALUES (:lease, :host, (julianday('now') - 2440587.5) * 86400.0 + :seconds)
ON CONFLICT (lease) DO UPDATE SET expires_at = excluded.expires_at;

-- acquire (postgresql): a new lease, or the same one again, if the answer to its commit was lost
INSERT INTO leases (lease, host, expires_at)
VALUES (:lease, :host, extract(epoch FROM clock_timestamp()) + CAST(:seconds AS DOUBLE PRECISION))
ON CONFLICT (lease) DO UPDATE SET expires_at = excluded.expires_at;

-- renew (sqlite): a heartbeat; no row when another process has ended the lease
UPDATE leases SET expires_at = (julianday('now') - 2440587.5) * 86400.0 + :seconds WHERE lease = :lease RETURNING lease;

-- renew (postgresql): a heartbeat; no row when another process has ended the lease
UPDATE leases SET expires_at = extract(epoch FROM clock_timestamp()) + CAST(:seconds AS DOUBLE PRECISION)
WHERE lease = :lease RETURNING lease;

-- hold: keeps others from ending the lease until this transaction ends; no row when one has ended it
SELECT lease FROM leases WHERE lease = :lease FOR UPDATE;

-- end_expired (sqlite): leases whose process did not renew them
DELETE FROM leases WHERE expires_at < (julianday('now') - 2440587.5) * 86400.0 AND lease <> :own RETURNING lease, host;

-- end_expired (postgresql): leases whose process did not renew them
DELETE FROM leases WHERE lease IN (
  SELECT lease FROM leases WHERE expires_at < extract(epoch FROM clock_timestamp()) AND lease <> :own
  FOR UPDATE SKIP LOCKED)
RETURNING lease, host;

-- end: one lease
DELETE FROM leases WHERE lease = :lease;

-- end_of_host: the leases of a host that is known to have ended
DELETE FROM leases WHERE host = :host RETURNING lease;

-- take_back: the deliveries that a lease has claimed
UPDATE deliveries SET status = 'pending', lease = NULL WHERE status = 'leased' AND lease = :lease;
