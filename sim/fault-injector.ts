/**
 * Injects faults into processes and hosts: crashes, stops, sleep, clocks that are set or run at another rate, and a store
 * that reboots or finds itself on another clock. All of it is drawn when the world is made.
 */
import { RATE_MAX, RATE_MIN } from './host-clock.ts'
import { canHappen, type FaultKind, type Log } from './log.ts'
import type { Random } from './random.ts'
import type { SimProcess } from './sim-process.ts'
import type { StoreHost, StoreKind } from './store-host.ts'
import type { World } from './world.ts'

export interface FaultInjectorOptions {
  readonly world: World
  readonly log: Log
  readonly random: Random
  readonly host: StoreHost
  readonly store: StoreKind
  readonly processes: readonly SimProcess[]
  readonly startProcess: (process: SimProcess) => void
}

type InjectedFault = Extract<
  FaultKind,
  | 'crash'
  | 'pause'
  | 'suspension'
  | 'wall_step'
  | 'drift'
  | 'store_reboot'
  | 'store_clock_change'
  | 'store_wall_step'
  | 'store_pause'
>

const STOP_MS_MAX = 4_000
/** Shorter sleep than a boot clock of this coarseness can show is no sleep that a holder could know of. */
const SLEEP_MS_MIN = 100
const RESTART_MS_MAX = 1_500
const WALL_STEP_MS_MAX = 3_600_000
const AWAY_MS_MIN = 100
const AWAY_MS_MAX = 2_500

export class FaultInjector {
  readonly #options: FaultInjectorOptions

  constructor(options: FaultInjectorOptions) {
    this.#options = options
  }

  plan(untilUs: number): void {
    const { random, world, store } = this.#options
    const count = random.pick([0, 1, 3, 8])
    const weights: Record<InjectedFault, number> = {
      crash: 4,
      pause: 5,
      suspension: 3,
      wall_step: 2,
      drift: 2,
      store_reboot: 0.4,
      store_clock_change: 0.5,
      store_wall_step: 1,
      store_pause: 2,
    }
    const possible = Object.fromEntries(
      Object.entries(weights).filter(([fault]) => canHappen(fault as InjectedFault, store)),
    ) as Record<InjectedFault, number>
    for (let index = 0; index < count; index += 1) {
      const fault = random.weighted(possible)
      world.schedule(random.between(0, untilUs), () => this.#injectFault(fault))
    }
    this.#planOutages(untilUs)
  }

  #planOutages(untilUs: number): void {
    const { world } = this.#options
    const random = this.#options.random.fork('outages')
    if (!random.chance(0.3)) return
    for (let count = random.between(1, 3); count > 0; count -= 1) {
      const awayMs = random.magnitude(AWAY_MS_MIN, AWAY_MS_MAX)
      world.schedule(random.between(0, untilUs), () => this.#cutOff(awayMs))
    }
  }

  #cutOff(awayMs: number): void {
    const { host, log, world } = this.#options
    if (host.isAway) return
    host.isAway = true
    log.fault('store_away', null)
    world.schedule(awayMs * 1000, () => {
      host.isAway = false
      log.fault('store_back', null)
    })
  }

  /** Injects no further fault. Dead processes are started; stopped ones resume in their own time. */
  stop(): void {
    for (const process of this.#options.processes) {
      if (process.incarnation === null) this.#start(process)
    }
  }

  #injectFault(fault: InjectedFault): void {
    const { log, host, random, processes, world } = this.#options
    switch (fault) {
      case 'store_reboot':
        log.fault(fault, null)
        host.reboot()
        for (const process of processes) this.#crash(process)
        return
      case 'store_clock_change':
        log.fault(fault, null)
        return host.changeClock(random.between(0, 100_000))
      case 'store_wall_step':
        log.fault(fault, null)
        return host.stepWall(this.#wallStepMs())
      case 'store_pause':
        log.fault(fault, null)
        host.pausedUntilUs = world.nowUs + random.magnitude(5, STOP_MS_MAX) * 1000
        return
      case 'crash':
      case 'pause':
      case 'suspension':
      case 'wall_step':
      case 'drift':
        return this.#inject(random.pick(processes), fault)
    }
  }

  #inject(process: SimProcess, fault: Exclude<InjectedFault, `store_${string}`>): void {
    const { log, random } = this.#options
    if (process.incarnation === null) return
    log.fault(fault, process.name)
    switch (fault) {
      case 'crash':
        return this.#crash(process)
      case 'pause':
        return this.#stop(process, 'pause', random.magnitude(5, STOP_MS_MAX))
      case 'suspension':
        return this.#stop(process, 'suspension', random.magnitude(SLEEP_MS_MIN, STOP_MS_MAX))
      case 'drift':
        return process.drift(RATE_MIN + random.fraction() * (RATE_MAX - RATE_MIN))
      case 'wall_step': {
        // Without a boot clock a holder has only the wall clock to notice sleep by; set back, it would notice none.
        const stepMs = this.#wallStepMs()
        return process.clock.stepWall(process.clock.hasBootClock ? stepMs : Math.abs(stepMs))
      }
    }
  }

  #crash(process: SimProcess): void {
    const { random, world } = this.#options
    process.crash()
    world.schedule(random.magnitude(1, RESTART_MS_MAX) * 1000, () => {
      if (process.incarnation === null) this.#start(process)
    })
  }

  #start(process: SimProcess): void {
    this.#options.log.fault('restart', process.name)
    this.#options.startProcess(process)
  }

  #stop(process: SimProcess, how: 'pause' | 'suspension', spanMs: number): void {
    if (process.isStopped) return
    process.stop(how)
    const { incarnation } = process
    this.#options.world.schedule(spanMs * 1000, () => {
      if (process.incarnation === incarnation) process.resume()
    })
  }

  #wallStepMs(): number {
    const { random } = this.#options
    const sizeMs = random.magnitude(10, WALL_STEP_MS_MAX)
    return random.chance(0.5) ? sizeMs : -sizeMs
  }
}
