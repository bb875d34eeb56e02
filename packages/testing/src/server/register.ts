import { startTestServer } from './test-server.js'

// For node's own test runner, which has no global setup on Node 20: `node --import @holdfast/testing/register --test`.
// It is loaded by the runner and, again, by each test file's process, which finds the runner's server in its environment.
if (!process.env.HOLDFAST_TEST_SERVER) {
  const stop = await startTestServer()
  process.once('beforeExit', () => void stop())
}
