/** How to read docs/benchmarks.md: of each work only if it was measured. */
import type { WorkName } from '../plan.ts'

const TITLE = `# Benchmarks

Tenure beside what people use today, in one run on the same servers. This page and its plots are written by
\`npm run bench\`; \`npm run bench -- --quick\` shows every ratio within a minute, \`-- --help\` the options.
[What an operation costs](performance.md) says why some targets are missed.

How to read it:
`

interface Hint {
  readonly text: string
  /** Told if one of these was measured; always, if nothing is said. */
  readonly of?: readonly WorkName[]
  /** Not told if one of these was. */
  readonly notOf?: readonly WorkName[]
}

const HINTS: readonly Hint[] = [
  {
    text: `- Only ratios count. A shared machine is noisy, so whatever is compared is measured in turns (A B C, B A C …), a ratio is
  taken within each round, and the tables show the median of the rounds and, in brackets, from where to where they went.`,
  },
  {
    of: ['many'],
    text: '- Growth is measured beside a small store in the same rounds.',
  },
  {
    of: ['pauses', 'keeping', 'profile'],
    text: '- What has no rounds (pauses, keeping, processor time) is measured one after the other.',
  },
  {
    text: `- **The floor** (Redis, PostgreSQL) and **the limit** (SQLite) are written by hand and do nothing but what the work asks
  for. Uncontended the limit has no callers at all: it is a loop that writes the rows of 100 operations in one transaction.
- \`tenure\` is what applications hold (\`openTenure\`: handles that renew themselves, notice loss, wait in a queue);
  \`tenure-service\` is what it stands on (\`openApi\`: ids and outcomes).
- The settings of the peers are printed. What a peer does not offer is in the same table.`,
  },
  {
    of: ['contended', 'pauses'],
    text: `- All workers of a process share what it has opened; of Tenure that is one client, whose concurrent calls take turns like
  anybody's. Runs up to that of commit 2bed6b8 opened a client for each worker, because calls of one client could not take
  turns then: their contended figures of Tenure are those of another set-up.`,
  },
  {
    of: ['pauses'],
    text: `- For those who wait by asking again this run has tried several pauses first, and each contends with the one that gave it
  the most handovers (*Pauses of those who poll*), with 50 workers in one process and 1 ms hold. It keeps that pause without a
  hold and in 4 processes, where another might serve it better.`,
  },
  {
    notOf: ['pauses'],
    text: `- Those who wait by asking again pause as long as an earlier run found best for each, with 50 workers in one process and
  1 ms hold. They do so without a hold and in 4 processes too, where another pause might serve them better.`,
  },
  {
    of: ['uncontended', 'many', 'profile'],
    text: `- Renewals ask for another expiry each time: SQLite skips a write of the same bytes, and would show five times the true rate.`,
  },
  {
    of: ['uncontended'],
    text: `- With one operation in flight it matters whether client and server share a core, so both are measured, pinned by
  \`taskset\`. With 100 in flight nothing is pinned.
- Uncontended everybody has the same time to warm up. Before and after the uncontended work each system is opened
  twice and must show that it excludes between the two.`,
  },
  {
    of: ['contended', 'pauses'],
    text: `- A *handover* is a turn that another worker had before. Whoever takes a lock straight back after releasing it has handed
  nothing over, however fast. A hold of 1 ms is one to the microsecond: it looks at the clock in every turn of Node's loop,
  which goes on with everything else meanwhile but keeps a core busy. Between two turns a worker lets the others of its
  process run.`,
  },
  {
    of: ['contended'],
    text: `- In the contended work every turn is checked, between processes too. Who overlaps once is scored nowhere on that store.`,
  },
  {
    text: `- What overlaps, throws, or does not answer for two minutes is listed under *Not scored*.`,
  },
]

/** For a run that has measured these. */
export function headOf(measured: readonly WorkName[]): string {
  const isAny = (works: readonly WorkName[]): boolean => works.some((one) => measured.includes(one))
  const told = HINTS.filter(({ of, notOf }) => {
    return (of === undefined || isAny(of)) && (notOf === undefined || !isAny(notOf))
  })
  return [TITLE, ...told.map(({ text }) => text), ''].join('\n')
}
