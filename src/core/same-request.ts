/**
 * Whether a request that comes again asks for what it had as its effect. A request id names one request: under the id of
 * another no caller may hear that something was carried out that was not.
 */
import { DIMENSIONS } from './budget.ts'
import type { Advance, Spend, Transfer } from './command.ts'
import type { LeaseEvent } from './event.ts'

/** Commands whose answer says how much, how far or to whom. */
export type CountedCommand = Spend | Advance | Transfer

export function isEffectOf(event: LeaseEvent, command: CountedCommand): boolean {
  switch (command.kind) {
    case 'spend': {
      if (event.type !== 'lease.accounted' || event.change.kind !== 'spent') return false
      const { amounts } = event.change
      return DIMENSIONS.every((one) => (amounts[one] ?? 0) === (command.amounts[one] ?? 0))
    }
    case 'advance': {
      const to = command.from + command.count
      return event.type === 'lease.advanced' && event.from === command.from && event.to === to
    }
    case 'transfer':
      return event.type === 'lease.transferred' && event.to === command.to
  }
}
