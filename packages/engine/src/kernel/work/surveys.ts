/** What a loop found when it read everything that is due. */
export interface Survey {
  /** False if something is missing: the database did not respond, expired leases were skipped, or the loop has stopped. */
  readonly complete: boolean
  /** How many items the claim has taken, or handled by itself. */
  readonly taken: number
  /** Milliseconds until the next item falls due, if that is within the ceiling. */
  readonly nextDueMs: number | null
}

/** A running loop as tests see it: they must know when nothing is left to do. */
export interface SurveyedLoop {
  readonly model: string
  /** Items that are claimed and have not ended. */
  readonly held: number
  /** How many it has claimed so far. */
  readonly claimed: number
  /** Reads everything that is due, with a claim that begins after this call; the ceiling says how far ahead. */
  survey(ceilingMs: number): Promise<Survey>
}

const running = new Map<string, Set<SurveyedLoop>>()

/**
 * The running loops of a worker of this process, of all models: every loop registers itself. Only tests use it: a test that
 * waits until nothing is due asks the loops instead of the tables of every model.
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
  readonly report: (survey: Survey) => void
}

/** The surveys that were requested and that no claim has begun to serve. */
export function createSurveys() {
  let open: Question[] = []
  let closed = false
  return {
    ask: (ceilingMs: number): Promise<Survey> =>
      closed ? Promise.resolve(incomplete) : new Promise((report) => void open.push({ ceilingMs, report })),
    /** The surveys that the next claim serves. */
    take(): { readonly ceilingMs: number; report(survey: Survey): void } | undefined {
      const taken = open
      if (taken.length === 0) return undefined
      open = []
      return {
        ceilingMs: Math.max(...taken.map(({ ceilingMs }) => ceilingMs)),
        report(survey) {
          for (const { report } of taken) report(survey)
        },
      }
    },
    close() {
      closed = true
      for (const { report } of open) report(incomplete)
      open = []
    },
  }
}

const incomplete: Survey = { complete: false, taken: 0, nextDueMs: null }
