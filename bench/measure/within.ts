/** A system that never answers must not stop the run: it is told of like one that throws. */
const PATIENCE_MS = 120_000

export async function within<Result>(
  work: Promise<Result>,
  patienceMs: number = PATIENCE_MS,
): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const message = `no answer within ${patienceMs / 1_000} s`
    timer = setTimeout(() => reject(new Error(message)), patienceMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
