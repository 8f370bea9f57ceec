/** Write the types of the description in the first file into the second; scripts/typescript_client.py runs it. */

import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString, COMMENT_HEADER } from "openapi-typescript";
import ts from "typescript";

const [source, target] = process.argv.slice(2);
const { factory } = ts;
const text = factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword);
const bytes = ["Blob", "Uint8Array"].map((name) => factory.createTypeReferenceNode(name));
const file = factory.createUnionTypeNode([...bytes, text]);

const types = await openapiTS(JSON.parse(await readFile(source, "utf8")), {
  alphabetize: true,
  defaultNonNullable: false,
  emptyObjectsUnknown: true,
  transform: (schema) => (schema.format === "binary" ? file : undefined),
});
await writeFile(target, COMMENT_HEADER + astToString(types));
