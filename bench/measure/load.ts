/** Keeps so many operations in flight for so long, and says how many were done and how long each took. */
import { allDone } from './all-done.ts'
import { median, percentile } from './statistics.ts'

export interface Slice {
  readonly opsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface LoadOptions {
  readonly sliceMs: number
  readonly inFlight: number
}

export async function runFor(
  { sliceMs, inFlight }: LoadOptions,
  operation: () => Promise<void>,
): Promise<Slice> {
  const spans: number[] = []
  const startMs = performance.now()
  const worker = async (): Promise<void> => {
    for (;;) {
      const sentMs = performance.now()
      if (sentMs - startMs >= sliceMs) return
      await operation()
      spans.push(performance.now() - sentMs)
    }
  }
  await allDone(Array.from({ length: inFlight }, worker))
  return sliceOf(spans, spans.length, performance.now() - startMs)
}

/** For a loop without callers: each of a batch takes as long as the batch. */
export function runLoopFor(
  { sliceMs, inFlight }: LoadOptions,
  batch: (count: number) => void,
): Slice {
  const spans: number[] = []
  const startMs = performance.now()
  let sentMs = startMs
  while (sentMs - startMs < sliceMs) {
    batch(inFlight)
    const doneMs = performance.now()
    spans.push(doneMs - sentMs)
    sentMs = doneMs
  }
  return sliceOf(spans, spans.length * inFlight, sentMs - startMs)
}

function sliceOf(spans: readonly number[], done: number, elapsedMs: number): Slice {
  return {
    opsPerSecond: done / (elapsedMs / 1_000),
    p50Ms: median(spans),
    p99Ms: percentile(spans, 0.99),
  }
}
