-- Takes back what serving over HTTP keeps: keys, and the answers to writes.
DROP FUNCTION find_api_key(text);
DROP TABLE idempotency_keys;
DROP TABLE api_keys;
