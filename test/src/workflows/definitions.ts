import { BusinessError, defineWorkflow, type Holdfast, type StepContext } from 'holdfast'
import type { Notes } from './notes.js'

/**
 * The workflows of the kill tests. Each round has handlers of its own, so that rounds run beside each other and no worker
 * takes what is not its own.
 */
export function workflowsOf(round: string) {
  const handler = (name: string) => `${name} of ${round}`
  const soon = { retry: { maxAttempts: 4, delays: ['20ms'] } } as const

  /** A chain, a retry, a fork with a join, and a step that ends with its own transaction. */
  const Journey = defineWorkflow('test', `journey ${round}`)
    .step('plain', handler('Note'), soon)
    .step('flaky', handler('Flaky'), soon)
    .fork(
      'both',
      (b) => b.step('left', handler('Note'), soon).step('left again', handler('Note'), soon),
      (b) => b.step('right', handler('Note'), soon),
    )
    .join('together', 'all')
    .step('book', handler('Book'), soon)
    .step('last', handler('Note'), soon)
    .build()

  /** Fails at its end and takes everything back, with a compensation that needs a second attempt. */
  const Undone = defineWorkflow('test', `undone ${round}`)
    .step('first', handler('Note'), soon)
    .onFailure('undo first', handler('Undo'), soon)
    .fork(
      'both',
      (b) => b.step('second', handler('Note'), soon).onFailure('undo second', handler('Undo'), soon),
      (b) => b.step('third', handler('Book'), soon).onFailure('undo third', handler('Flaky'), soon),
    )
    .join('together', 'all')
    .step('declined', handler('Declined'), soon)
    .onFailure('undo declined', handler('UndoBooked'), soon)
    .build()

  /** A call that must never be repeated. */
  const Careful = defineWorkflow('test', `careful ${round}`)
    .step('before', handler('Note'), soon)
    .step('pay', handler('Note'), { nonIdempotent: true })
    .step('after', handler('Note'), soon)
    .build()

  return {
    Journey,
    Undone,
    Careful,
    handleAll(hf: Holdfast, { called }: Notes): void {
      const note = (ctx: StepContext) => called(ctx.instanceId, ctx.compensation ?? ctx.stepName)
      const book = async (_: unknown, ctx: StepContext) => {
        await note(ctx)
        return ctx.transaction(async (tx) => {
          await tx.query('insert into booking values ($1, $2)', [ctx.instanceId, ctx.compensation ?? ctx.stepName])
          return 'booked'
        })
      }
      const done = async (_: unknown, ctx: StepContext) => {
        await note(ctx)
        return ctx.stepName
      }
      const handlers = {
        Note: done,
        Undo: done,
        Book: book,
        UndoBooked: book,
        async Flaky(_: unknown, ctx: StepContext) {
          await note(ctx)
          if (ctx.attempt === 1) throw new Error('not yet')
          return ctx.stepName
        },
        async Declined(_: unknown, ctx: StepContext) {
          await note(ctx)
          throw new BusinessError('it was not to be', { code: 'NOT_TO_BE' })
        },
      }
      for (const [name, handle] of Object.entries(handlers)) hf.handle(handler(name), handle)
    },
  }
}
