-- hosts: hosts that had something under way
SELECT host FROM leases UNION SELECT host FROM invocations WHERE status IS NULL;

-- take_back: all deliveries that a process had claimed
UPDATE deliveries SET status = 'pending', lease = NULL WHERE status = 'leased';
