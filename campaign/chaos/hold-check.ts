/**
 * The independent check of a run: from the logs of the workers alone, and knowing nothing of how Tenure works. One pass
 * over all lines, merged by their times; n lines of k workers take n log k steps.
 *
 * A hold lasts from its start to the earliest of its release, its loss and the end of its holder's own view, which a
 * renewal moves. A worker that was killed or stopped has no line for the end, so that its own view ends it. A holder whose
 * view is over before it begins holds nothing.
 */
import { HoldLogReader, type HoldLine } from './hold-log.ts'

export interface HoldFacts {
  /**
   * Grants, renewals, ends of holds, guarded writes and refusals, a line of a log each; all of them were compared. The answer
   * to a release is none beside the end of its hold.
   */
  readonly operations: number
  /** Answers of the store: grants, renewals, releases and refusals. */
  readonly calls: number
  readonly grants: number
  /** Grants whose holder sent no release: killed, stopped, cut off, or asleep, they ended by their TTL. */
  readonly expired: number
  readonly renewals: number
  readonly writes: number
  /** Writes that were tried after the end of the holder's own view; only a guard is in their way. */
  readonly lateWrites: number
  readonly refusedWrites: number
  /** Two holders at one moment. */
  readonly overlaps: readonly string[]
  /** A later holder with a fence that is not greater. Where two may hold together, the later one may be the first to be told. */
  readonly fenceFaults: readonly string[]
  /** A fence that was asked for after one had been given that is not smaller. */
  readonly fencesBack: readonly string[]
  /** Writes that the guard took after one with a greater fence. */
  readonly staleWrites: readonly string[]
  /** Writes that the guard refused although their holder still held the lease. */
  readonly wrongRefusals: readonly string[]
  /** What cannot be judged: lines that are none, or that speak of what was not told before. */
  readonly undecided: readonly string[]
  /** By their codes. */
  readonly refusals: Readonly<Record<string, number>>
  readonly errors: Readonly<Record<string, number>>
  /** For each log, when its last hold began; 0: it had none. */
  readonly lastStartUs: readonly number[]
}

interface Hold {
  readonly name: string
  readonly resource: number
  readonly fence: number
  untilUs: number
  isOver: boolean
}

type StartLine = Extract<HoldLine, readonly ['start', ...unknown[]]>

interface ResourceState {
  holder: Hold | null
  fence: number
  /** In order of time, each with the greatest fence that was known then. */
  readonly grants: { readonly atUs: number; readonly highest: number }[]
}

export function checkHolds(paths: readonly string[]): HoldFacts {
  const check = new HoldCheck(paths.length)
  const lines = new MergedLines(paths)
  for (let next = lines.next(); next !== null; next = lines.next()) check.take(next)
  return check.facts()
}

class HoldCheck {
  readonly #holds: readonly Map<number, Hold>[]
  readonly #lastAtUs: number[]
  readonly #lastStartUs: number[]
  readonly #resources = new Map<number, ResourceState>()
  /** By the guard's own order: the resource and the fence of each write. */
  readonly #taken: (readonly [resource: number, fence: number] | undefined)[] = []
  readonly #refusals: Record<string, number> = {}
  readonly #errors: Record<string, number> = {}
  readonly #overlaps: string[] = []
  readonly #fenceFaults: string[] = []
  readonly #fencesBack: string[] = []
  readonly #wrongRefusals: string[] = []
  readonly #undecided: string[] = []
  readonly #counts = {
    ...{ operations: 0, grants: 0, released: 0, answered: 0, renewals: 0 },
    ...{ writes: 0, late: 0, refused: 0 },
  }

  constructor(logs: number) {
    this.#holds = Array.from({ length: logs }, () => new Map<number, Hold>())
    this.#lastAtUs = Array.from({ length: logs }, () => 0)
    this.#lastStartUs = Array.from({ length: logs }, () => 0)
  }

  take({ log, line }: MergedLine): void {
    if (line === 'unreadable')
      return void this.#undecided.push(`log ${log} has a line that is none`)
    const [kind, atUs] = line
    if (atUs < (this.#lastAtUs[log] ?? 0)) this.#undecided.push(`log ${log} goes back in time`)
    this.#lastAtUs[log] = atUs
    if (kind === 'error') return countCode(this.#errors, line[2])
    if (kind !== 'released') this.#counts.operations += 1
    if (kind === 'refused') return countCode(this.#refusals, line[2])
    if (kind === 'start') return this.#start(log, line)
    const hold = this.#holds[log]?.get(line[2])
    if (hold === undefined) this.#undecided.push(`log ${log}: ${kind} of a hold that never began`)
    else if (kind === 'renewed') this.#renew(hold, atUs, line[3])
    else if (kind === 'end') this.#end(hold, line[3])
    else if (kind === 'released') this.#answered(hold)
    else this.#write(hold, atUs, line[3])
  }

  #start(log: number, [, atUs, id, resource, fence, untilUs, askedUs]: StartLine): void {
    this.#counts.grants += 1
    this.#compareFence({ resource, fence, askedUs, atUs })
    this.#lastStartUs[log] = atUs
    const hold: Hold = { name: `${log}/${id}`, resource, fence, untilUs, isOver: false }
    if (this.#holds[log]?.has(id)) this.#undecided.push(`${hold.name} begins twice`)
    this.#holds[log]?.set(id, hold)
    this.#hold(hold, atUs)
  }

  /** Only the few grants of the time that a request waits are looked at. */
  #compareFence(grant: Record<'resource' | 'fence' | 'askedUs' | 'atUs', number>): void {
    const { resource, fence, askedUs, atUs } = grant
    const { grants } = this.#stateOf(resource)
    const before = grants.findLast((earlier) => earlier.atUs <= askedUs)?.highest ?? 0
    if (fence <= before) {
      this.#fencesBack.push(
        `resource ${resource}: fence ${fence} was asked for after ${before} had been given`,
      )
    }
    grants.push({ atUs, highest: Math.max(fence, grants.at(-1)?.highest ?? 0) })
  }

  /** From now on, and until its own view ends, the holder acts as if no other had the resource. */
  #hold(hold: Hold, atUs: number): void {
    if (hold.untilUs <= atUs) return
    const state = this.#stateOf(hold.resource)
    const { holder } = state
    if (holder !== null && holder !== hold && !holder.isOver && holder.untilUs > atUs) {
      const byUs = Math.min(holder.untilUs, hold.untilUs) - atUs
      this.#overlaps.push(
        `resource ${hold.resource}: ${holder.name} (fence ${holder.fence}) and ${hold.name} (fence ${hold.fence}) hold together from ${atUs} µs on, by ${Math.round(byUs)} µs`,
      )
    }
    if (holder !== hold && hold.fence <= state.fence) {
      this.#fenceFaults.push(`resource ${hold.resource}: fence ${hold.fence} after ${state.fence}`)
    }
    state.holder = hold
    state.fence = Math.max(state.fence, hold.fence)
  }

  #stateOf(resource: number): ResourceState {
    const known = this.#resources.get(resource)
    if (known !== undefined) return known
    const state: ResourceState = { holder: null, fence: 0, grants: [] }
    this.#resources.set(resource, state)
    return state
  }

  /** A renewal that is believed means that the holder has held all the time since its start. */
  #renew(hold: Hold, atUs: number, untilUs: number): void {
    this.#counts.renewals += 1
    if (hold.isOver) return void this.#undecided.push(`${hold.name} is renewed after its end`)
    hold.untilUs = Math.max(hold.untilUs, untilUs)
    this.#hold(hold, atUs)
  }

  #end(hold: Hold, why: 'released' | 'lost'): void {
    if (why === 'released') this.#counts.released += 1
    hold.isOver = true
  }

  #answered(hold: Hold): void {
    this.#counts.answered += 1
    if (!hold.isOver) this.#undecided.push(`${hold.name} is released before its end`)
  }

  #write(hold: Hold, atUs: number, order: number | null): void {
    this.#counts.writes += 1
    const isLate = hold.isOver || hold.untilUs <= atUs
    if (isLate) this.#counts.late += 1
    if (order !== null) {
      if (this.#taken[order] !== undefined) this.#undecided.push(`two writes have number ${order}`)
      this.#taken[order] = [hold.resource, hold.fence]
      return
    }
    this.#counts.refused += 1
    if (!isLate) this.#wrongRefusals.push(`${hold.name} held resource ${hold.resource}`)
  }

  facts(): HoldFacts {
    const { operations, grants, released, answered, renewals, writes, late, refused } = this.#counts
    const refusals = Object.values(this.#refusals).reduce((sum, count) => sum + count, 0)
    return {
      calls: grants + renewals + answered + refusals,
      ...{ operations, grants, renewals, writes, lateWrites: late, refusedWrites: refused },
      expired: grants - released,
      overlaps: this.#overlaps,
      fenceFaults: this.#fenceFaults,
      fencesBack: this.#fencesBack,
      staleWrites: this.#staleWrites(),
      wrongRefusals: this.#wrongRefusals,
      undecided: this.#undecided,
      refusals: this.#refusals,
      errors: this.#errors,
      lastStartUs: this.#lastStartUs,
    }
  }

  #staleWrites(): readonly string[] {
    const highest = new Map<number, number>()
    const stale: string[] = []
    for (const write of this.#taken) {
      if (write === undefined) continue
      const [resource, fence] = write
      const before = highest.get(resource) ?? 0
      if (fence < before) stale.push(`resource ${resource}: a write of ${fence} after ${before}`)
      else highest.set(resource, fence)
    }
    return stale
  }
}

function countCode(counts: Record<string, number>, code: string): void {
  counts[code] = (counts[code] ?? 0) + 1
}

interface MergedLine {
  readonly log: number
  readonly line: HoldLine | 'unreadable'
}

interface Head extends MergedLine {
  readonly atUs: number
}

/** The lines of all logs in the order of their times: a heap of the next line of each. */
class MergedLines {
  readonly #readers: readonly HoldLogReader[]
  readonly #heap: Head[] = []

  constructor(paths: readonly string[]) {
    this.#readers = paths.map((path) => new HoldLogReader(path))
    for (const log of this.#readers.keys()) this.#read(log, 0)
  }

  next(): MergedLine | null {
    const [first] = this.#heap
    if (first === undefined) return null
    const last = this.#heap.pop()
    if (last !== undefined && this.#heap.length > 0) this.#sink(last)
    this.#read(first.log, first.atUs)
    return first
  }

  #read(log: number, afterUs: number): void {
    const line = this.#readers[log]?.next() ?? null
    // A line that is none has the time of the one before it, so that it is met in its place.
    if (line !== null) this.#rise({ log, line, atUs: line === 'unreadable' ? afterUs : line[1] })
  }

  #rise(head: Head): void {
    const heap = this.#heap
    let at = heap.push(head) - 1
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = heap[above]
      if (parent === undefined || parent.atUs <= head.atUs) break
      heap[at] = parent
      at = above
    }
    heap[at] = head
  }

  #sink(head: Head): void {
    const heap = this.#heap
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      const [left, right] = [heap[below], heap[below + 1]]
      if (left === undefined) break
      if (right !== undefined && right.atUs < left.atUs) below += 1
      const child = heap[below]
      if (child === undefined || child.atUs >= head.atUs) break
      heap[at] = child
      at = below
    }
    heap[at] = head
  }
}
