/**
 * Stands for a process that contends. The system called `late` answers when somebody else is asked, and the one called
 * `dying` ends it; every other answers at once, if it was opened in this process.
 */
import type { Order, Reply } from '../../bench/works/contender-process.ts'

const open = new Set<string>()
let overdue = (): void => {}

process.on('message', ({ kind, number, system: { name } }: Order) => {
  const reply = (said: Reply): void => void process.send?.(said)
  overdue()
  if (kind === 'open') open.add(name)
  if (kind !== 'contend') return reply({ number, kind: 'done', turns: null })
  if (!open.has(name)) return reply({ number, kind: 'failed', error: 'is not open' })
  if (name === 'dying') process.exit(1)
  const turn = { worker: name, askedUs: 0, startUs: 0, endUs: 0 }
  const answer = (): void => {
    reply({ number, kind: 'done', turns: { turns: [turn], waiting: [] } })
  }
  if (name === 'late') overdue = answer
  else answer()
})
process.once('disconnect', () => process.exit(0))
