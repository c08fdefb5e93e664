"""Sentences of many kinds: what the int8 encoder's scales are fixed on, and what its agreement is measured on."""

CALIBRATION = (
    "That is a happy person.",
    "The film starts slowly, but the last half hour is among the best I have seen this year.",
    "Terrible service. We waited an hour, the soup was cold and nobody apologised.",
    "How do I reset my password if I no longer have access to my old email address?",
    "omg can't believe we won!!! best night EVER #champions",
    "The central bank left interest rates unchanged on Thursday, citing slower growth abroad.",
    "ok",
    "Take one tablet twice a day with food; stop if you notice a rash.",
    "I bought this phone in March and the battery already lasts only two hours.",
    "ERROR 2024-03-01 12:04:55 connection to 10.0.0.12:5432 refused after 3 retries",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "Der Zug nach Hamburg hat heute leider dreißig Minuten Verspätung.",
    "She closed the letter, folded it twice and put it where no one would look.",
    "Is it safe to give my dog paracetamol?",
    "lol nope",
    "The tenant shall give written notice at least sixty days before the end of the term.",
    "A gripping, beautifully acted thriller that never insults its audience.",
    "for i in range(10): print(i, end=' ')",
    "After two weeks on this medicine my headaches were gone, but I could hardly sleep.",
    "La comida estaba deliciosa y el personal fue muy amable.",
    "Preheat the oven to 180 degrees and line a tin with baking paper.",
    "Not bad, not great. Two and a half stars.",
    "The senator's office declined to comment on the report published on Sunday.",
    "asdf qwerty zxcv 12345",
    "My order #48213 says delivered, but there is nothing at the door and no photo.",
    "The committee found no evidence of fraud, though it criticised the lack of records.",
    "Le musée est fermé le lundi, sauf les jours fériés.",
    "If only the dialogue were half as good as the special effects!",
    "We show that the estimator is consistent under covariate shift and derive its variance.",
    "thx for the help yesterday :) really appreciate it",
    "The battery is the weak point; the screen, the speakers and the keyboard are excellent.",
    "Rain is expected in the north, with gusts of up to 90 km/h along the coast.",
    "Why would anyone pay forty dollars for a plastic cup?",
    "",
    "He scored twice in the final ten minutes to send the visitors into the semi-final.",
    "これは素晴らしい映画でした。",
    "The patient is a 54-year-old man with chest pain radiating to the left arm.",
    "Please find attached the invoice for services rendered in October.",
    (
        "I wanted to like it. The premise is clever, the cast is strong and the first act moves. But the "
        "script keeps explaining its own jokes, the romance arrives from nowhere, and by the time the "
        "villain reveals his plan the film has forgotten what it was about. There are two scenes worth the "
        "ticket: the dinner, which is shot in one take and lets the actors breathe, and the chase across "
        "the frozen lake. Everything else you have seen before, done with more care and less money. Wait "
        "until it is on television, and then do something else."
    ),
    (
        "To whom it may concern: on the third of May I returned the two jackets listed below, in their "
        "original packaging and within the thirty days your terms allow. I have a receipt from the post "
        "office. Since then I have called four times and written twice, and each time I was told that the "
        "refund would arrive within five working days. It has not. Unless the full amount is in my account "
        "by Friday I will ask my bank to reverse the payment and report the matter to the consumer office."
    ),
)

HELD_OUT = (
    "That is a happy dog.",
    "Today is a sunny day.",
    "An hour of my life I will never get back.",
    "Wonderful hotel, friendly people and the best breakfast in town.",
    "my flight got cancelled AGAIN, thanks for nothing",
    "Parliament passed the budget late on Tuesday after a day of heated debate.",
    "Can I change the delivery address after the order has been shipped?",
    "The side effects were mild: a dry mouth and some dizziness in the first week.",
    "It works exactly as described and was easy to install.",
    "The plot makes no sense, yet I could not look away.",
    "Gravity bends the path of light passing near a massive object.",
    "good",
    "Ich habe das Paket nie bekommen.",
    "The sound is thin, the strap broke on day two and support never answered.",
    "Shares of the company fell four percent after the earnings report.",
    "SELECT name, price FROM items WHERE stock > 0 ORDER BY price",
    "What a game! Two goals in stoppage time.",
    "The author writes with warmth about a village that no longer exists.",
    "Stir in the flour, a spoonful at a time, until the dough is smooth.",
    "The warranty does not cover damage caused by water or improper use.",
    (
        "I have taken it for three years and would not switch to anything else, although the price has "
        "doubled and my pharmacy is often out of stock. The first month was hard, with nausea nearly every "
        "morning, but my doctor lowered the dose and since then I have had no complaints at all. My advice "
        "to anyone starting: eat first, drink plenty of water, and give it at least six weeks before you "
        "decide."
    ),
    "nah its fine dont worry bout it",
    "Who wrote the first novel ever printed in this city?",
    "Voters will choose between two candidates who agree on almost nothing.",
)
