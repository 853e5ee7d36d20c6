/**
 * A simulated process: its host's clocks, its timers, and everything that can happen to it. A message or timer of a
 * process that is dead is gone; one that arrives while the process is stopped waits until it runs again.
 */
import type { Runtime, Timer } from '../src/runtime/runtime.ts'
import { sessionDigest } from '../src/service/session-digest.ts'
import { HostClock, type HostClockOptions } from './host-clock.ts'
import type { Log, Who } from './log.ts'
import type { Random } from './random.ts'
import type { World } from './world.ts'

export interface SimProcessOptions {
  readonly name: string
  readonly holder: string
  readonly clock: HostClockOptions
}

export class SimProcess {
  readonly name: string
  readonly holder: string
  readonly clock: HostClock
  readonly world: World
  readonly log: Log
  readonly random: Random
  /** Of the life that it lives: one session, or two that share it. */
  #living: readonly Incarnation[] = []
  #incarnations = 0
  #stopped: 'pause' | 'suspension' | null = null
  #held: (() => void)[] = []
  #onRateChange: (() => void)[] = []
  #hasDrifted = false

  constructor(
    surroundings: { world: World; log: Log; random: Random },
    options: SimProcessOptions,
  ) {
    this.world = surroundings.world
    this.log = surroundings.log
    this.random = surroundings.random
    this.name = options.name
    this.holder = options.holder
    this.clock = new HostClock(surroundings.world, options.clock)
  }

  get isStopped(): boolean {
    return this.#stopped !== null
  }

  get incarnation(): Incarnation | null {
    return this.#living[0] ?? null
  }

  start(): Incarnation {
    this.#incarnations += 1
    this.#living = []
    return this.#begin(`${this.name}.${this.#incarnations}`)
  }

  /** Another session in the same life: it runs, stops and dies with the first. */
  startTwin(): Incarnation {
    return this.#begin(`${this.name}.${this.#incarnations}'`)
  }

  #begin(session: string): Incarnation {
    const incarnation = new Incarnation(this, session)
    this.#living = [...this.#living, incarnation]
    this.log.write({ kind: 'started', ...incarnation.who, holder: this.holder })
    return incarnation
  }

  crash(): void {
    if (this.#living.length === 0) return
    if (this.#stopped !== null) this.resume()
    const dying = this.#living
    this.#living = []
    for (const incarnation of dying) {
      this.log.write({ kind: 'crashed', ...incarnation.who })
      incarnation.die()
    }
    this.#held = []
    this.#onRateChange = []
  }

  stop(how: 'pause' | 'suspension'): void {
    if (this.#stopped !== null) return
    this.#stopped = how
    if (how === 'suspension') this.clock.sleep()
    this.log.write({ kind: 'stopped', process: this.name, how })
  }

  /** The clock runs at another rate from now on; a caller that computes true time from it must do so again. */
  drift(rate: number): void {
    this.clock.rate = rate
    for (const incarnation of this.#living) incarnation.armTimersAnew()
    this.#hasDrifted = true
    if (this.#stopped === null) this.#tellDrift()
  }

  #tellDrift(): void {
    this.#hasDrifted = false
    for (const listener of this.#onRateChange) listener()
  }

  onRateChange(listener: () => void): void {
    this.#onRateChange.push(listener)
  }

  /** What waited is run in the order in which it came, each a moment after the other. */
  resume(): void {
    if (this.#stopped === null) return
    if (this.#stopped === 'suspension') this.clock.wake()
    this.#stopped = null
    const held = this.#held
    this.#held = []
    let busyUs = 0
    for (const action of held) {
      busyUs += this.random.between(1, 300)
      this.world.schedule(busyUs, () => this.#runOrHold(action))
    }
    this.log.write({ kind: 'resumed', process: this.name, busyUs })
    if (this.#hasDrifted) this.#tellDrift()
  }

  /** Runs `action` in this process after `delayUs`, if its incarnation is still alive then. */
  post(incarnation: Incarnation, delayUs: number, action: () => void): void {
    this.world.schedule(delayUs, () => {
      if (!incarnation.alive) return false
      return this.#runOrHold(() => {
        if (incarnation.alive) action()
      })
    })
  }

  #runOrHold(action: () => void): boolean {
    if (this.#stopped === null) {
      action()
      return true
    }
    this.#held.push(action)
    return false
  }
}

/** One session of a process, from its start to its end. */
export class Incarnation {
  readonly process: SimProcess
  readonly session: string
  readonly runtime: Runtime
  alive = true
  readonly #timers = new Set<SimTimer>()
  readonly #onDeath: (() => void)[] = []

  constructor(process: SimProcess, session: string) {
    this.process = process
    this.session = session
    this.runtime = runtimeOf(this)
  }

  /** The digest of its session, by which other processes know it. */
  get who(): Who {
    return { process: this.process.name, session: sessionDigest(this.session) }
  }

  die(): void {
    this.alive = false
    for (const listener of this.#onDeath) listener()
  }

  onDeath(listener: () => void): void {
    this.#onDeath.push(listener)
  }

  post(delayUs: number, action: () => void): void {
    this.process.post(this, delayUs, action)
  }

  get timerCount(): number {
    return this.#timers.size
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const timer = new SimTimer(this, delayMs, () => {
      this.#timers.delete(timer)
      callback()
    })
    this.#timers.add(timer)
    timer.arm()
    const cancel = (): void => {
      this.#timers.delete(timer)
      timer.cancel()
    }
    return { cancel }
  }

  /** Timers run on the host's clock, at whatever rate that runs. */
  armTimersAnew(): void {
    for (const timer of this.#timers) timer.arm()
  }

  sleep(spanMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.post(this.process.clock.trueUs(spanMs), resolve)
    })
  }
}

/** A turn of the event loop that is busy makes timers late, never early. */
const TIMER_LATE_US_MAX = 1_500

function runtimeOf(incarnation: Incarnation): Runtime {
  const { process } = incarnation
  const { clock, random } = process
  return {
    monotonicMs: () => clock.monotonicMs,
    bootMs: () => clock.bootMs,
    wallMs: () => clock.wallMs,
    setTimer: (delayMs, callback) => incarnation.setTimer(delayMs, callback),
    uuid: () => random.uuid(),
    random: () => random.fraction(),
    canonicalPath: (path) => path,
  }
}

/** Armed anew, it draws how late it is anew. */
class SimTimer {
  readonly #incarnation: Incarnation
  readonly #dueMs: number
  readonly #callback: () => void
  /** Counts how often it was armed; only the last time counts. */
  #armed = 0

  constructor(incarnation: Incarnation, delayMs: number, callback: () => void) {
    this.#incarnation = incarnation
    this.#dueMs = incarnation.process.clock.monotonicMs + Math.max(0, delayMs)
    this.#callback = callback
  }

  arm(): void {
    const { clock, random } = this.#incarnation.process
    const lateUs = random.between(0, TIMER_LATE_US_MAX)
    const leftUs = Math.max(0, clock.trueUs(this.#dueMs - clock.monotonicMs))
    this.#armed += 1
    const armed = this.#armed
    this.#incarnation.post(leftUs + lateUs, () => {
      if (armed !== this.#armed) return
      // The host slept meanwhile, and the clock that the timer runs on stood still.
      if (clock.monotonicMs < this.#dueMs) return this.arm()
      this.#callback()
    })
  }

  cancel(): void {
    this.#armed += 1
  }
}
