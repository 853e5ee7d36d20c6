/** The exhaustive search of the core: all that two and three clients can do, up to a depth. */
import { childReport } from '../child-report.ts'
import type { Part, Step } from '../part.ts'
import type { WorldName } from '../../test/core/overlapping-sequences.ts'
import type { SearchOrder, SearchReport } from './search-states.ts'

const MINUTES = 10
/** The worlds with the most states. */
const LONG_MINUTES = 15

interface SearchedWorld {
  readonly world: WorldName
  readonly clients: number
  readonly minutes: number
}

function step(name: string, { world, clients, minutes: wholeMinutes }: SearchedWorld): Step {
  return {
    name,
    minutes: wholeMinutes,
    run: async ({ minutes, say }) => {
      const order: SearchOrder = { world, clients, minutes }
      const program = 'campaign/search/search-states.ts'
      const report = await childReport<SearchReport>({ program, order, onLine: say })
      const { states, steps, depth, isAll, failures } = report
      const note = isAll
        ? `all states that there are: sequences of more than ${depth} commands lead to no other`
        : `all sequences of ${depth} commands; those of ${depth + 1} in part`
      return {
        counts: { 'distinct states': states, commands: steps },
        failures,
        shortfalls: [],
        note,
      }
    },
  }
}

export const search: Part = {
  name: 'search',
  about:
    'All sequences of commands of two and of three clients on a directory and a file in it, on a resource with slots, and on one that some may break, at instants before and after tickets and leases are over, one command longer each time, ' +
    'until the time is over. Two states with the same future count once: they are told apart by 64 bits of a SHA-256 of all that a decision can depend on, in the order of the clients that comes first, ' +
    'so that the chance that any of ten million states is taken for another and not looked at is about 1 in 370,000. After every command every promise is checked by books that use none of the rules of the core.',
  steps: [
    step('two clients', { world: 'tree', clients: 2, minutes: MINUTES }),
    step('three clients', { world: 'tree', clients: 3, minutes: MINUTES }),
    step('two clients share slots', { world: 'slots', clients: 2, minutes: MINUTES }),
    step('three clients share slots', { world: 'slots', clients: 3, minutes: LONG_MINUTES }),
    step('two clients break what others hold', {
      world: 'breakable',
      clients: 2,
      minutes: MINUTES,
    }),
    step('three clients break what others hold', {
      world: 'breakable',
      clients: 3,
      minutes: LONG_MINUTES,
    }),
  ],
  atLeast: { 'distinct states': 10_000_000 },
}
