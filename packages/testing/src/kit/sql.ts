/** Any SQL, on a connection of the test's own. */
export type Sql = <Row extends object = Record<string, unknown>>(text: string, params?: unknown[]) => Promise<Row[]>
