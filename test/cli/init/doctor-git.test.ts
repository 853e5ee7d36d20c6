/** `tenure doctor` proves the hooks of git, and says why one would stop nobody. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryRepository, type TemporaryRepository } from '../../git/temporary-repository.ts'

interface Check {
  readonly name: string
  readonly ok: boolean
  readonly detail: string
}

/** What the doctor says of git; whatever it needs for that is gone afterwards. */
async function checksOf({ run, directory }: TemporaryRepository): Promise<readonly Check[]> {
  const temporary = path.join(directory, 'temporary')
  fs.mkdirSync(temporary, { recursive: true })
  const { stdout } = await run(['doctor', '--json'], { env: { TMPDIR: temporary } })
  expect(fs.readdirSync(temporary)).toEqual([])
  const { checks } = JSON.parse(stdout) as { readonly checks: readonly Check[] }
  return checks.filter(({ name }) => name.startsWith('git '))
}

const REFUSED = [
  { name: 'git pre-commit', ok: true, detail: 'a commit of what another holds is refused' },
  { name: 'git pre-push', ok: true, detail: 'a push of what another holds is refused' },
]

describe('tenure doctor in a repository', () => {
  it('says nothing of hooks that were never set up, and proves those that were', async () => {
    const repository = temporaryRepository()
    expect(await checksOf(repository)).toEqual([])
    const hook = path.join(repository.root, '.git/hooks/pre-commit')
    const ran = path.join(repository.directory, 'ran')
    fs.writeFileSync(hook, `#!/bin/sh\ntouch '${ran}'\n`, { mode: 0o755 })
    await repository.tenure(['init', 'git', '--write'])
    const before = fs.readdirSync(path.join(repository.root, '.git'), { recursive: true })
    expect(await checksOf(repository)).toEqual(REFUSED)
    expect(fs.readdirSync(path.join(repository.root, '.git'), { recursive: true })).toEqual(before)
    // The hook that was there comes after, and would run only if ours let the commit through.
    expect(fs.existsSync(ran)).toBe(false)
  })

  it('says of a hook that stops nobody, or everybody, why', async () => {
    const repository = temporaryRepository()
    await repository.tenure(['init', 'git', '--write'])
    const [commit, push] = ['pre-commit', 'pre-push'].map((hook) => {
      return path.join(repository.root, '.git/hooks', hook)
    }) as [string, string]
    fs.chmodSync(commit, 0o644)
    const text = fs.readFileSync(push, 'utf8')
    fs.writeFileSync(push, text.replace('| tenure git', '| tenuer git'))
    const [first, second, ...more] = await checksOf(repository)
    expect(first).toEqual({
      name: 'git pre-commit',
      ok: false,
      detail: 'a commit of what another holds went through: pre-commit is not executable',
    })
    expect(second).toMatchObject({ name: 'git pre-push', ok: false })
    expect(second?.detail).toMatch(/^every push fails, whoever holds what: .*tenuer: .*not found/)
    expect(more).toEqual([])
    fs.rmSync(push)
    expect((await checksOf(repository))[1]?.detail).toContain(
      'does not ask Tenure: tenure init git',
    )
  })
})
