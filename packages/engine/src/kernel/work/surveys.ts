/** What a loop found when it was asked to look at everything. */
export interface Survey {
  /** False when it does not tell everything: the database did not answer, expired leases were spared, the loop has stopped. */
  readonly complete: boolean
  /** How many items the look has taken up, or dealt with by itself. */
  readonly taken: number
  /** Milliseconds until the next item falls due, if that is within the ceiling. */
  readonly nextDueMs: number | null
}

/** A running loop as tests see it, which must know when everything has come to rest. */
export interface SurveyedLoop {
  readonly model: string
  /** Items that are claimed and have not ended. */
  readonly held: number
  /** How many it has claimed so far. */
  readonly claimed: number
  /** Looks at everything, beginning now at the earliest; the ceiling says how far ahead. */
  survey(ceilingMs: number): Promise<Survey>
}

const running = new Map<string, Set<SurveyedLoop>>()

/**
 * The running loops of a worker of this process, whichever models they are of: every loop enters itself. No product
 * needs it; a test that waits until nothing is due asks them instead of every model's tables.
 */
export function loopsOf(worker: string): readonly SurveyedLoop[] {
  return [...(running.get(worker) ?? [])]
}

export function enterLoop(worker: string, loop: SurveyedLoop): void {
  running.set(worker, (running.get(worker) ?? new Set()).add(loop))
}

export function leaveLoop(worker: string, loop: SurveyedLoop): void {
  const loops = running.get(worker)
  loops?.delete(loop)
  if (loops?.size === 0) running.delete(worker)
}

interface Question {
  readonly ceilingMs: number
  readonly answer: (survey: Survey) => void
}

/** The surveys that were asked for and that no claim has begun to answer. */
export function createSurveys() {
  let open: Question[] = []
  let closed = false
  return {
    ask: (ceilingMs: number): Promise<Survey> =>
      closed ? Promise.resolve(untold) : new Promise((answer) => void open.push({ ceilingMs, answer })),
    /** Those that the claim which is about to begin will answer. */
    take(): { readonly ceilingMs: number; answer(survey: Survey): void } | undefined {
      const taken = open
      if (taken.length === 0) return undefined
      open = []
      return {
        ceilingMs: Math.max(...taken.map(({ ceilingMs }) => ceilingMs)),
        answer(survey) {
          for (const { answer } of taken) answer(survey)
        },
      }
    },
    close() {
      closed = true
      for (const { answer } of open) answer(untold)
      open = []
    },
  }
}

const untold: Survey = { complete: false, taken: 0, nextDueMs: null }
