-- The characters of the scripts that write no spaces between words, as they stand inside a regular expression's brackets:
-- Thai, Hangul with its letters, kana, Han with its iteration marks and the supplementary planes.
CREATE OR REPLACE FUNCTION unspaced() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '\u0E00-\u0E7F\u1100-\u11FF\u3005-\u3007\u3040-\u30FA\u30FC-\u30FF\u3400-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF'
    || '\U00020000-\U0003FFFF';

-- A text in the form that is analyzed: half-width kana and full-width letters as the ordinary ones.
CREATE OR REPLACE FUNCTION usual_width(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN content ~ '[\uFF00-\uFFEF]' THEN normalize(content, NFKC) ELSE content END;

-- The same with each character of such a script as a word of its own, which every configuration can compare by place.
CREATE OR REPLACE FUNCTION spaced_out(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN content ~ ('[' || unspaced() || ']') THEN regexp_replace(content, '([' || unspaced() || '])', ' \1 ', 'g')
    ELSE content
END;

GRANT EXECUTE ON FUNCTION unspaced(), usual_width(text), spaced_out(text) TO @app@, @definer@;
REVOKE ALL ON FUNCTION unspaced(), usual_width(text), spaced_out(text) FROM PUBLIC;
