/** What Holdfast's own tests are made of besides the kit; no promise to users. */

export { type FaultProxy, startFaultProxy } from './harness/fault-proxy.js'
export { dieAt, type Faults, holdAt, recordPoints, stopDeadAt } from './harness/faults.js'
export { gate } from './harness/gate.js'
export { numbered } from './harness/numbered.js'
export { startPgBouncer } from './harness/pgbouncer.js'
export { sqlFolder } from './harness/sql-folder.js'
export { countStatements } from './harness/statement-counter.js'
export { openTestBus, type TestBus, type TestBusOptions } from './harness/test-bus.js'
export type { ProcessRow, TestProcesses } from './harness/test-processes.js'
export { waitFor } from './harness/wait-for.js'
export { startWorkerProcess, type WorkerProcess } from './harness/worker-process.js'
export { connectionStringOf, startTestServer, type TestDatabase, testDatabase } from './server/test-server.js'
