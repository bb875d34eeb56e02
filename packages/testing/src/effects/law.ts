import type { EffectEvent } from './event.js'

/** How an execution has ended, as far as its effects are concerned. */
export type EffectEnd =
  /** It completed: its effects stand. */
  | 'kept'
  /** It was compensated, cancelled or failed: its effects are undone. */
  | 'undone'
  /** Its effects may stand or be undone: the loser of a race, steps before a save point. */
  | 'either'
  /** It has not ended. */
  | 'open'

/** One violation of the rule. */
export interface EffectFinding {
  readonly execution: string
  readonly name: string
  /**
   * `forgotten`: the execution was undone, the effect stands. `lost`: the execution completed, the effect was undone.
   * `made twice`, `undone twice`. `made after undo`: the undo came first, the effect stands. `repeated blindly`: called once
   * more although the outcome of the first call was unknown. `not ended`.
   */
  readonly problem:
    | 'forgotten'
    | 'lost'
    | 'made twice'
    | 'undone twice'
    | 'made after undo'
    | 'repeated blindly'
    | 'not ended'
  /** What happened at the service, in order. */
  readonly events: readonly string[]
}

/** Checks the rule over everything that happened at the service. */
export function effectFindings(
  events: readonly EffectEvent[],
  endOf: (execution: string, name: string) => EffectEnd,
): EffectFinding[] {
  const byCall = new Map<string, EffectEvent[]>()
  for (const event of events) {
    const key = JSON.stringify([event.execution, event.name])
    const known = byCall.get(key)
    if (known) known.push(event)
    else byCall.set(key, [event])
  }
  return [...byCall.values()].flatMap((ofCall) => {
    const [first] = ofCall
    if (!first) return []
    const { execution, name } = first
    return problemsOf(ofCall, endOf(execution, name)).map((problem) => ({
      execution,
      name,
      problem,
      events: ofCall.map(({ what }) => what),
    }))
  })
}

function problemsOf(events: readonly EffectEvent[], end: EffectEnd): EffectFinding['problem'][] {
  const made = effectsMade(events)
  const undos = new Set(events.filter(({ what }) => what === 'undone').map(({ idempotencyKey }) => idempotencyKey))
  const stands = made > 0 && undos.size === 0
  const undoneAt = events.findIndex(({ what }) => what === 'undone')
  const problems: (EffectFinding['problem'] | false)[] = [
    end === 'open' && 'not ended',
    end === 'undone' && stands && 'forgotten',
    end === 'kept' && made > 0 && undos.size > 0 && 'lost',
    made > 1 && 'made twice',
    undos.size > 1 && 'undone twice',
    undoneAt >= 0 && events.slice(undoneAt).some(({ what }) => what === 'made') && 'made after undo',
    repeatedBlindly(events) && 'repeated blindly',
  ]
  return problems.filter((problem) => problem !== false)
}

/** A service that recognises repeated calls counts keys; one that does not counts calls. */
function effectsMade(events: readonly EffectEvent[]): number {
  const made = events.filter(({ what }) => what === 'made')
  const recognised = new Set(made.filter(({ once }) => !once).map(({ idempotencyKey }) => idempotencyKey))
  return recognised.size + made.filter(({ once }) => once).length
}

/** Between two calls that must not be repeated there must be a refusal, or an inquiry that found no effect. */
function repeatedBlindly(events: readonly EffectEvent[]): boolean {
  let unknown = false
  for (const { what, once } of events) {
    if (what === 'called' && once) {
      if (unknown) return true
      unknown = true
    }
    if (what === 'refused' || what === 'inquired') unknown = false
  }
  return false
}

/** As a person reads it. */
export function describeFinding({ execution, name, problem, events }: EffectFinding): string {
  return `${problem}: ${name} of ${execution} (${events.join(', ')})`
}
