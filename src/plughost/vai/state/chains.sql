-- create: a new chain; no row when its id or its compaction exists
INSERT INTO chains (chain_id, org_id, project_id, session_id, source_chain_id, compaction_id)
VALUES (:chain_id, :org_id, :project_id, :session_id, :source_chain_id, :compaction_id)
ON CONFLICT DO NOTHING
RETURNING chain_id;

-- find: the head of a chain
SELECT chain_id, org_id, project_id, session_id, source_chain_id, compaction_id
FROM chains WHERE chain_id = :chain_id;

-- lock: the head of a chain, whose blocks only this transaction may number
SELECT chain_id, org_id, project_id, session_id, source_chain_id, compaction_id
FROM chains WHERE chain_id = :chain_id FOR UPDATE;

-- derived: the chain that a compaction has created
SELECT chain_id, source_chain_id FROM chains WHERE compaction_id = :compaction_id;

-- insert_block: a block under a number; no row when its idempotency key exists
INSERT INTO blocks (chain_id, number, kind, content, more, once)
VALUES (:chain_id, :number, :kind, :content, :more, :once)
ON CONFLICT (once) DO NOTHING
RETURNING number;

-- last: the number of the last block
SELECT coalesce(max(number), 0) AS number FROM blocks WHERE chain_id = :chain_id;

-- is_known: a block with that idempotency key
SELECT number FROM blocks WHERE once = :once;

-- blocks: the first blocks after a number
SELECT number, kind, content, more FROM blocks
WHERE chain_id = :chain_id AND number > :after
ORDER BY number LIMIT :limit;

-- size: bytes of all blocks
SELECT coalesce(sum(octet_length(content) + octet_length(more) - 2), 0) AS bytes
FROM blocks WHERE chain_id = :chain_id;
