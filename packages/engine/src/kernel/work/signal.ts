/** A wake-up that is never lost: if it fires while nothing waits, it ends the next wait at once. */
export interface Signal {
  fire(): void
  /** Resolves when fired, or after the given milliseconds. */
  wait(milliseconds?: number): Promise<void>
}

export function createSignal(): Signal {
  let fired = false
  let end: (() => void) | undefined

  return {
    fire() {
      fired = true
      end?.()
    },
    async wait(milliseconds) {
      if (!fired) {
        await new Promise<void>((resolve) => {
          const timer = milliseconds === undefined ? undefined : setTimeout(resolve, milliseconds)
          end = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      fired = false
      end = undefined
    },
  }
}
