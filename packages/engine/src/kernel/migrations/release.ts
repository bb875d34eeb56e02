/** The release of the schema that this library brings: the highest `-- release:` among its migrations. */
export const SCHEMA_RELEASE = 1
