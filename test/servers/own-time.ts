/** Time as this process has lived it: what a busy machine took from it counts for nothing. */

const STEP_MS = 10

/** How long the work took, in the steps of a timer that makes up for none it has missed. */
export async function ownMs(work: () => Promise<unknown>): Promise<number> {
  let ms = 0
  const timer = setInterval(() => (ms += STEP_MS), STEP_MS)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  return ms
}
