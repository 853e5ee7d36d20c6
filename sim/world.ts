/**
 * True time and what happens in it: a queue of events, run one after the other. Between two events everything that
 * the first one set in motion has come to rest, as between two turns of a real event loop; a promise that was
 * rejected without a handler is found at that moment, exactly when Node would find it.
 */

/** Returns false when it had nothing to do, so that nothing needs to come to rest. */
type Action = () => boolean | void

interface Scheduled {
  readonly atUs: number
  readonly sequence: number
  readonly action: Action
}

export class World {
  #nowUs = 0
  #sequence = 0
  #ran = 0
  readonly #heap: Scheduled[] = []

  /** True time, in microseconds since the world began. No process can read this; the checkers can. */
  get nowUs(): number {
    return this.#nowUs
  }

  get eventCount(): number {
    return this.#ran
  }

  schedule(delayUs: number, action: Action): void {
    this.#sequence += 1
    const atUs = this.#nowUs + Math.max(0, Math.round(delayUs))
    push(this.#heap, { atUs, sequence: this.#sequence, action })
  }

  /** Runs everything that happens up to and including `untilUs`. */
  async run(untilUs: number): Promise<void> {
    for (;;) {
      const next = this.#heap[0]
      if (next === undefined || next.atUs > untilUs) break
      pop(this.#heap)
      this.#nowUs = next.atUs
      this.#ran += 1
      if (next.action() !== false) await atRest()
    }
    this.#nowUs = Math.max(this.#nowUs, untilUs)
  }
}

/** Resolves when no microtask is left. */
function atRest(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function isBefore(a: Scheduled, b: Scheduled): boolean {
  return a.atUs < b.atUs || (a.atUs === b.atUs && a.sequence < b.sequence)
}

function push(heap: Scheduled[], item: Scheduled): void {
  let index = heap.push(item) - 1
  while (index > 0) {
    const parentIndex = (index - 1) >> 1
    const parent = heap[parentIndex]
    if (parent === undefined || !isBefore(item, parent)) break
    heap[index] = parent
    index = parentIndex
  }
  heap[index] = item
}

function pop(heap: Scheduled[]): void {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let index = 0
  for (;;) {
    let childIndex = 2 * index + 1
    const right = heap[childIndex + 1]
    let child = heap[childIndex]
    if (child === undefined) break
    if (right !== undefined && isBefore(right, child)) {
      childIndex += 1
      child = right
    }
    if (!isBefore(child, last)) break
    heap[index] = child
    index = childIndex
  }
  heap[index] = last
}
