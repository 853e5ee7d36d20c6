/** When each process was stopped, by a signal or because its host slept, until it had run what had waited. */
import type { Evidence } from '../evidence.ts'

export interface Stop {
  readonly how: 'pause' | 'suspension'
  readonly fromUs: number
  readonly toUs: number
}

export function stopsOf({ log, endUs }: Evidence): ReadonlyMap<string, readonly Stop[]> {
  const stops = new Map<string, Stop[]>()
  const open = new Map<string, Omit<Stop, 'toUs'>>()
  const close = (process: string, toUs: number): void => {
    const begun = open.get(process)
    if (begun === undefined) return
    open.delete(process)
    stops.set(process, [...(stops.get(process) ?? []), { ...begun, toUs }])
  }
  for (const entry of log) {
    if (entry.kind === 'stopped') open.set(entry.process, { how: entry.how, fromUs: entry.atUs })
    if (entry.kind === 'resumed') close(entry.process, entry.atUs + entry.busyUs)
  }
  for (const process of [...open.keys()]) close(process, endUs)
  return stops
}
