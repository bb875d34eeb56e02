import { describe, expect, it } from 'vitest'
import { classifyFailure } from '../../kernel/failure/classify.js'
import { BusinessError } from '../../kernel/failure/failure-errors.js'
import { defineWorkflow } from '../define.js'
import { Simulation } from '../simulation/simulation.js'
import { renderMermaid } from './mermaid.js'
import { renderText } from './text.js'

const order = defineWorkflow('test', 'order', { dlq: true })
  .step('charge', 'ChargeCard')
  .onFailure('refund', 'RefundCard')
  .savePoint('paid')
  .fork(
    'fulfil',
    (b) => b.condition('digital', '{{ eq .kind "digital" }}', (e) => e.step('post', 'PostOffice')).step('mail', 'Mail'),
    (b) =>
      b.parallel(
        'papers',
        (p) => p.step('invoice', 'Invoice').step('archive', 'Archive'),
        (p) => p.condition('abroad', '{{ .abroad }}'),
      ),
    (b) => b.step('ship', 'ShipOrder', { retry: { maxAttempts: 2 } }),
  )
  .join('fulfilled', 'all')
  .waitHumanConfirm('approve')
  .build()

const business = classifyFailure(new BusinessError('no stock', { code: 'NO_STOCK' }), { unknown: 'transient' })
const transient = classifyFailure(new Error('later'), { unknown: 'transient' })

function halfway() {
  const run = new Simulation(order).start().complete('charge', { kind: 'digital' }).complete('mail').complete('invoice')
  run.claim('archive')
  run.claim('ship')
  run.apply({ type: 'failed', step: 'ship', failure: transient })
  run.claim('ship')
  run.apply({ type: 'failed', step: 'ship', failure: business })
  return run.state
}

describe('W-14 a workflow as text', () => {
  it('shows a definition', () => {
    expect(`\n${renderText(order)}`).toMatchInlineSnapshot(`
      "
      order-v1         dlq
      charge           ChargeCard ↩ refund: RefundCard
      paid             save point
      fulfil           fork
      ├─ digital       {{ eq .kind "digital" }}
      │  ├─ else post  PostOffice
      │  mail          Mail
      ├─ papers        parallel
      │  ├─ invoice    Invoice
      │  │  archive    Archive
      │  └─ abroad     {{ .abroad }}
      └─ ship          ShipOrder
      fulfilled        join all
      approve          a person confirms"
    `)
  })

  it('shows how far an instance has come', () => {
    expect(`\n${renderText(order, halfway())}`).toMatchInlineSnapshot(`
      "
      order-v1         dlq                              DLQ
      charge           ChargeCard ↩ refund: RefundCard  COMPLETED
      paid             save point                       COMPLETED
      fulfil           fork                             COMPLETED
      ├─ digital       {{ eq .kind "digital" }}         COMPLETED, yes
      │  ├─ else post  PostOffice
      │  mail          Mail                             COMPLETED
      ├─ papers        parallel                         RUNNING
      │  ├─ invoice    Invoice                          COMPLETED
      │  │  archive    Archive                          RUNNING
      │  └─ abroad     {{ .abroad }}                    COMPLETED, no
      └─ ship          ShipOrder                        PAUSED in the DLQ, attempt 2: NO_STOCK
      fulfilled        join all                         PENDING
      approve          a person confirms"
    `)
  })

  it('keeps names and expressions of several lines on one line', () => {
    const odd = defineWorkflow('test', 'odd').condition('a\nb', '{{\n.x\n}}').build()
    expect(renderText(odd).split('\n')).toHaveLength(2)
  })
})

describe('W-14 a workflow as Mermaid', () => {
  it('shows a definition', () => {
    expect(`\n${renderMermaid(order)}`).toMatchInlineSnapshot(`
      "
      flowchart TD
          s0["charge<br/>ChargeCard"]
          s0u["refund<br/>RefundCard"]
          s0 -.-> s0u
          s0 --> s1
          s1[["paid<br/>save point"]]
          s1 --> s2
          s2{{"fulfil<br/>fork"}}
          s2 --> s3
          s2 --> s6
          s2 --> s10
          s3{"digital<br/>#123;#123; eq .kind #34;digital#34; #125;#125;"}
          s3 -->|yes| s5
          s3 -->|no| s4
          s4["post<br/>PostOffice"]
          s4 --> s11
          s5["mail<br/>Mail"]
          s5 --> s11
          s6{{"papers<br/>parallel"}}
          s6 --> s7
          s6 --> s9
          s7["invoice<br/>Invoice"]
          s7 --> s8
          s8["archive<br/>Archive"]
          s8 --> s11
          s9{"abroad<br/>#123;#123; .abroad #125;#125;"}
          s9 -->|yes| s11
          s9 -->|no| s11
          s10["ship<br/>ShipOrder"]
          s10 --> s11
          s11{{"fulfilled<br/>join all"}}
          s11 --> s12
          s12[/"approve<br/>a person confirms"/]
          s12 --> done
          done(["end"])"
    `)
  })

  it('shows how far an instance has come', () => {
    expect(renderMermaid(order, halfway()).split('\n').slice(-12).join('\n')).toMatchInlineSnapshot(`
      "    s11 --> s12
          s12[/"approve<br/>a person confirms"/]
          s12 --> done
          done(["DLQ"])
          classDef done fill:#dcfce7,stroke:#16a34a
          class s0,s1,s2,s3,s5,s7,s9 done
          classDef waiting fill:#eef2f7,stroke:#8295ab
          class s11 waiting
          classDef running fill:#dbeafe,stroke:#2563eb,stroke-width:2px
          class s6,s8 running
          classDef paused fill:#fef3c7,stroke:#d97706
          class s10 paused"
    `)
  })

  it('lets no name end its label or become markup', () => {
    const odd = defineWorkflow('test', 'odd').step('a"] --> <script>alert(1)', 'H`#;').build()
    const [, node] = renderMermaid(odd).split('\n')
    expect(node).toMatch(/^ {4}s0\["[^"<>[\]`]*<br\/>[^"<>[\]`]*"\]$/)
  })

  it('has a node for each step, and arrows only between nodes', () => {
    const drawn = renderMermaid(order, halfway())
    const nodes = new Set([...drawn.matchAll(/^ {4}(\w+)(?=[[{(])/gm)].map(([, id]) => id))
    for (const [, from, to] of drawn.matchAll(/^ {4}(\w+) (?:-->(?:\|\w+\|)?|-\.->) (\w+)$/gm)) {
      expect(nodes).toContain(from)
      expect(nodes).toContain(to)
    }
    expect(nodes.size).toBe(order.steps.length + 2)
  })
})
