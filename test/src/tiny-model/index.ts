export { type TinyBooks, tinyBooks } from './books.js'
export { type TinyWorkerOptions, tinyWorker } from './run-tiny.js'
export { enqueueTiny, installTinyModel, type TinyFinish, tinyFinishes, tinySource } from './tiny-model.js'
export type { TinyProcessOptions } from './worker-process.js'

/** The built worker process, found from the sources as well. */
export const tinyWorkerScript = new URL('../../dist/tiny-model/worker-process.js', import.meta.url)
