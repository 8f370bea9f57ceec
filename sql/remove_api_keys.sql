-- Takes back what serving over HTTP keeps: keys, and the answers to writes.
DROP FUNCTION find_api_key(text);
DROP FUNCTION remove_expired_writes(integer);
DROP TABLE idempotency_keys;
DROP TABLE api_keys;
